"""Sealed JSON files that an evaluation keeps with a checkpoint, each bound to its model."""

import json
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cxrtext.errors import CheckpointError
from cxrtext.files import read_sealed, write_sealed
from cxrtext.models import ImageTextModel

AGAIN = (
    "remove it and make it again with 'cxrtext calibrate CHECKPOINT --data DIR', and --prompts "
    "FILE if they were your own"
)
Share = Annotated[float, Field(ge=0, le=1)]


class Kept(BaseModel):
    """Part of a kept file; nothing in it may be missing, unknown or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class KeptFile(Kept):
    """A kept file; it also has the fields ``format`` and ``version``.

    ``FILE`` is its name, ``fingerprint`` the model's, ``data`` the data folder's name without its
    path.
    """

    FILE: ClassVar[str]

    fingerprint: str
    data: str

    def save(self, folder: Path) -> Path:
        """Write it into its checkpoint, which keeps its fingerprint."""
        write_sealed(folder / self.FILE, self.model_dump(mode="json"))
        return folder / self.FILE

    @classmethod
    def load(cls, folder: Path, fingerprint: str) -> Self | None:
        """Read it from the checkpoint of the model with this fingerprint; None if it has none."""
        path = folder / cls.FILE
        if not path.exists():
            return None
        try:
            values = read_sealed(path)
            # As JSON: strict, but a list may stand for a tuple.
            kept = cls.model_validate_json(json.dumps(values), strict=True)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror}); {AGAIN}") from None
        except ValidationError as error:
            place = error.errors(include_url=False)[0]
            at = ".".join(map(str, place["loc"]))
            fault = "not of this version" if at == "version" else f"{at}: {place['msg']}"
            raise CheckpointError(f"{path}: {fault}; {AGAIN}") from None
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}; {AGAIN}") from None
        if kept.fingerprint != fingerprint:
            raise CheckpointError(f"{path}: made for another model; {AGAIN}")
        return kept

    @classmethod
    def beside(cls, model: ImageTextModel) -> Self | None:
        """Read it from a model's checkpoint, if there is one."""
        return None if model.folder is None else cls.load(model.folder, model.fingerprint)
