"""A project: a folder that ``cxrtext fit`` makes of an archive, and that every command takes."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.project.place import Place, find_place

__all__ = ["Place", "find_place"]

import_on_use(__name__)
