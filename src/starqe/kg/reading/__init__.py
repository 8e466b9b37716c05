"""Shared by the readers of all file formats: opening files, import options, the import task, the report."""
