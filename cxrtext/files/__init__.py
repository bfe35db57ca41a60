"""Files that are written whole or not at all, and noticed when they are no longer what was written.

``writing``: one file or folder in place of another, in one step.  ``digests``: SHA-256 sums of
folders, and JSON that carries its own.  ``sqlite``: SQLite files.  ``table_sums``: sums of the rows
of their tables.
"""

from cxrtext.files.digests import (
    DAMAGED_ARCHIVE,
    SEAL,
    SUMS,
    check_folder,
    check_listed,
    file_problems,
    is_as_named,
    open_regular,
    read_sealed,
    seal_of,
    sealed,
    sha256,
    sums_of,
    unsealed,
)
from cxrtext.files.writing import (
    is_empty,
    note_source,
    only_one,
    remove_file,
    replacing,
    replacing_folder,
    rights_of_sources,
    scratch_folder,
    sweep,
    sync,
    write_json,
    write_named,
    write_private,
    write_sealed,
    write_sums,
    write_text,
)

__all__ = [
    "DAMAGED_ARCHIVE",
    "SEAL",
    "SUMS",
    "check_folder",
    "check_listed",
    "file_problems",
    "is_as_named",
    "is_empty",
    "note_source",
    "only_one",
    "open_regular",
    "read_sealed",
    "remove_file",
    "replacing",
    "replacing_folder",
    "rights_of_sources",
    "scratch_folder",
    "seal_of",
    "sealed",
    "sha256",
    "sums_of",
    "sweep",
    "sync",
    "unsealed",
    "write_json",
    "write_named",
    "write_private",
    "write_sealed",
    "write_sums",
    "write_text",
]
