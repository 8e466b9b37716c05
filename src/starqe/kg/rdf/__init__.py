"""RDF in and out: parsing, statements with qualifiers from reifiers, and back."""
