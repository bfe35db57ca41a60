"""A project: a folder that ``cxrtext fit`` makes from an archive, and that every command takes."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.project.making import fit, train
    from cxrtext.project.place import Place, find_place
    from cxrtext.project.project import Project, open

__all__ = ["Place", "Project", "find_place", "fit", "open", "train"]

import_on_use(__name__)
