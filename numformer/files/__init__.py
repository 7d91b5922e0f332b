"""Files: those of others are read with care, and our own are written as a whole."""

from numformer.files.reading import (
    GIB, KIB, MIB, FileError, open_file, parse_json, read_file, size_in_words)
from numformer.files.writing import (
    flush_to_disk, folders_above, remove_unfinished, undone_after_errors, whole_file, whole_folders,
    write_atomically)

__all__ = [
    "FileError", "GIB", "KIB", "MIB", "flush_to_disk", "folders_above", "open_file", "parse_json",
    "read_file", "remove_unfinished", "size_in_words", "undone_after_errors", "whole_file",
    "whole_folders", "write_atomically",
]
