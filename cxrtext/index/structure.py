"""The FAISS structure of an index, derived from all its profiles."""

import json
from pathlib import Path

from cxrtext.files import sha256
from cxrtext.index.features.candidates import build_structure, is_large
from cxrtext.index.store.catalogue import Catalogue, set_meta, structure_of
from cxrtext.index.store.vectors import vector_files
from cxrtext.index.store.writer import sweep

STALE = 0.1  # share of new images at which it is derived again


def wants_structure(catalogue: Catalogue) -> bool:
    """Whether an index is large enough for a search by candidates."""
    meta = catalogue.meta()
    sketches = vector_files(catalogue.path.parent, meta)["sketch"]
    return is_large(int(meta["places"]), sketches.row_bytes)


def refresh_structure(folder: Path, catalogue: Catalogue, *, force: bool = False) -> None:
    """Derive it again if it is missing or too many images were added since, or with ``force``."""
    meta = catalogue.meta()
    places, noted = int(meta["places"]), structure_of(meta)
    made = None
    if wants_structure(catalogue):
        if noted is not None and not force and places - noted["places"] <= STALE * places:
            path = folder / noted["file"]
            if path.is_file() and sha256(path) == noted["digest"]:
                return
        serial = int(meta.get("structures", 0)) + 1
        name = f"profiles.{int(meta['generation']):06d}.{serial:06d}.faiss"
        profiles = vector_files(folder, meta)["profiles"].open(places)
        digest, rotation = build_structure(profiles, folder / name)
        made = {"file": name, "digest": digest, "places": places, "rotation": rotation.as_dict()}
        meta["structures"] = str(serial)
    elif noted is None:
        return
    with catalogue.transaction(write=True) as database:
        serial = int(meta.get("structures", 0))
        set_meta(database, {"structure": json.dumps(made), "structures": serial})
    sweep(folder, catalogue)
