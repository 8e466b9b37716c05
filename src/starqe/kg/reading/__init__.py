"""What every reader of a file format needs: bytes of files, options, the task that it fills, the report."""
