"""The sentences of an archive that its own images support least."""

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path

from cxrtext.errors import DataError
from cxrtext.evaluation.data import manifest_of, sentences_beside
from cxrtext.images.cache import DecodedCache
from cxrtext.models.regions import embed_files
from cxrtext.pausing import Progress, finish
from cxrtext.records import ImageRecord, Rejects, read_manifest
from cxrtext.service.answers import EmbeddedImage
from cxrtext.service.service import Service
from cxrtext.service.verify.sentences import ReportSentence
from cxrtext.service.verify.verify import SupportedSentence
from cxrtext.text.wording import Wording


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence of a report beside one of its study's images."""

    record: ImageRecord
    position: int  # of the sentence in its section, from 0
    found: SupportedSentence

    @property
    def support(self) -> float:
        """Percentile of its score among the reference images."""
        return 0.0 if self.found.support is None else self.found.support

    @property
    def rank(self) -> tuple[int, float, float]:
        """The unsupported come first, those farthest in the tail before others.

        Sentences that are not judged come last, by their support.
        """
        return (*self.found.judgment.rank, self.support)


def least_supported(
    service: Service,
    data: Path,
    *,
    split: str = "all",
    count: int = 1000,
    wordings: Collection[Wording] | None = None,
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    rejects: Rejects | None = None,
    progress: Progress | None = None,
) -> tuple[list[CheckedSentence], int]:
    """Verify every report of a data folder; gives the least supported sentences, and of how many.

    Args:
        service: What is loaded; it needs calibrated verdicts or reference images.
        split: "train", "val", "test" or "all".
    """
    manifest = manifest_of(data)
    read = sentences_beside(manifest)
    if read is None:
        raise DataError(f"{manifest}: no reports.csv beside it, and no column with reports")
    said: dict[str, list[ReportSentence]] = defaultdict(list)
    for one in read:
        said[one.study_id].append(ReportSentence(one.section, one.sentence, 0, 0))
    records = [
        record
        for record in read_manifest(manifest, allow_outside=allow_outside)
        if split in ("all", record.split) and record.study_id in said
    ]
    if not records:
        raise DataError(f"{data}: no image of split '{split}' has a report; give another --split")
    if service.verdicts is None and service.reference() is None:
        raise DataError(
            "the checkpoint has neither calibrated verdicts nor reference images to rank sentences "
            "by; make them with 'cxrtext calibrate CHECKPOINT --data DIR "
            "--keep-reference'"
        )
    checked: list[CheckedSentence] = []
    rejects, done, total = rejects or Rejects(), 0, 0
    for batch in embed_files(service.model, [record.path for record in records], cache=cache):
        for row, reason in batch.failed:
            rejects.add(records[row].name, reason)
        unlike = service.familiar.of_squares(batch.squares, service.model.spec.preprocessing)
        for row, size, regions, far in zip(
            batch.rows, batch.sizes, batch.regions, unlike, strict=True
        ):
            record, positions = records[row], Counter[str]()
            image = EmbeddedImage(regions, *size, unlike=far)
            for found in finish(service.verify_pausing(image, said[record.study_id])).sentences:
                if wordings is None or found.wording in wordings:
                    checked.append(CheckedSentence(record, positions[found.section], found))
                    total += 1
                positions[found.section] += 1
            checked = nsmallest(count, checked, key=lambda one: one.rank)
        done += len(batch.rows) + len(batch.failed)
        if progress:
            progress(done, len(records))
    return checked, total
