"""Queries of the embedded graph, with answers that its file shows."""

SCIENCE = "https://starqe.example/science/"
PREFIXES = f"PREFIX : <{SCIENCE}> PREFIX p: <{SCIENCE}relation/> "

BORN_IN_ULM = PREFIXES + "SELECT ?who WHERE { ?who p:bornIn :Ulm }"
SCORED = PREFIXES + "SELECT ?who ?score ?known WHERE { ?who p:bornIn :Ulm } LIMIT 2"
TWO_STEPS = PREFIXES + (
    "SELECT ?university ?who WHERE { :LawOfThePhotoelectricEffect p:discovererOrInventor ?who ."
    " ?who p:educatedAt ?university {| p:academicDegree :BachelorOfScience |} }"
)
BROKEN = "SELECT ?who WHERE {\n  ?who p:bornIn }"
