"""An import from beginning to end."""

from pathlib import Path

from cxrtext.datasets.importing.identity import Ids, read_key
from cxrtext.datasets.importing.joining import Tell
from cxrtext.datasets.importing.layouts import open_layout
from cxrtext.datasets.importing.options import ImportOptions, check_options
from cxrtext.datasets.importing.out_folder import claim_folder
from cxrtext.datasets.importing.set_aside import SetAside
from cxrtext.datasets.importing.summary import ImportSummary
from cxrtext.datasets.importing.walk import NOTE, WRITTEN
from cxrtext.datasets.importing.work import Import
from cxrtext.errors import CxrTextError
from cxrtext.files import SUMS, only_one, write_sums


def _silent(_stage: str, _done: int, _total: int) -> None:
    return


def import_folder(
    folder: Path,
    out: Path,
    options: ImportOptions | None = None,
    progress: Tell | None = None,
) -> ImportSummary:
    """Turn the files of a hospital or of a public set into a data folder.

    Only frontal radiographs are kept.  The same command gives the same bytes again, and goes on
    where a killed run stopped: images that are in place are not linked or copied again.

    Args:
        folder: The set; or a table with a column ``image``.
        out: The data folder: new, or of an earlier run with the same options.
        options: What the user chose; by default the layout is recognised and ids are kept.
        progress: Called with the stage, the files or rows done, and those in all.

    Returns:
        What was done, counted.

    Raises:
        ConfigError: An option is wrong.
        DataError: No layout is recognised, a table is missing or wrong, more files are damaged
            than ``max_rejected``, no image is kept, or ``out`` holds something else.
        WorkError: A file cannot be written, or another process imports into ``out``.
    """
    options = options or ImportOptions()
    check_options(options)
    ids = Ids(None if options.hash_key is None else read_key(options.hash_key))
    root, reading = open_layout(folder, options, out)
    claim_folder(out, root, options, reading.layout, ids)
    failure: CxrTextError | None = None
    with only_one(out / "manifest.csv"), SetAside(out, ids, options.max_rejected) as aside:
        (out / SUMS).unlink(missing_ok=True)  # until the tables are whole
        run = Import(root, out, options, reading, ids, aside, progress or _silent)
        try:
            run.work()
        except CxrTextError as error:
            failure = error
    if failure is not None:
        raise failure
    write_sums(out, [name for name in (NOTE, *WRITTEN) if (out / name).is_file()])
    return run.summary()
