"""How a sentence fits an image: how likely it is, and where."""

from dataclasses import dataclass
from pathlib import Path

from cxrtext.evaluation import Prompts
from cxrtext.images.gray import Floats
from cxrtext.service import EmbeddedImage, Service
from cxrtext.service.answers import Grounding
from cxrtext.text.labelling import sentence_labels
from cxrtext.text.rules import language_of, prompts_for


@dataclass(frozen=True, slots=True)
class Finding:
    sentence: str
    model: str  # fingerprint
    grounding: Grounding
    probability: float | None  # None if no sentence says the opposite
    calibrated: bool = False
    opposite: tuple[str, ...] = ()  # the sentences that the probability is measured against
    unlike: bool = False  # whether image or sentence is unlike the model's training data

    @property
    def present(self) -> bool:
        """Whether a region of the image stands out, so that results can point at it."""
        return self.grounding.stands_out is not False and bool(self.grounding.boxes)

    @property
    def percent(self) -> str:
        """The probability in words, or "" if there is none."""
        if self.probability is None:
            return ""
        kind = "calibrated" if self.calibrated else "not calibrated"
        return f"probability {100 * self.probability:.0f} % ({kind})"


def read_and_find(service: Service, path: Path, sentence: str) -> tuple[Floats, Finding]:
    """Read an image file and find a sentence in it; pixels are [1, H, W] in [0, 1]."""
    pixels = service.read_file(path)
    return pixels, find(service, service.embed(pixels), sentence)


def find(service: Service, image: EmbeddedImage, sentence: str) -> Finding:
    """Find a sentence in an image (InputError).

    If the sentence is a positive prompt of one of the service's findings, the probability is that
    finding's, calibrated if the checkpoint is; else it is the sentence's against its denial.
    """
    grounding = service.ground(image, sentence, as_written=True)
    name, prompts = prompts_of(service, sentence)
    answer = None
    if prompts is not None:
        (answer,) = service.classify(image, {name: prompts})
    far = service.familiar.of_sentence(sentence)
    return Finding(
        sentence,
        service.model.fingerprint,
        grounding,
        None if answer is None else answer.probability,
        answer is not None and answer.calibrated,
        () if prompts is None else prompts.negative,
        image.is_unlike or (far is not None and far.flagged),
    )


def prompts_of(service: Service, sentence: str) -> tuple[str, Prompts | None]:
    """The finding and prompts that give a sentence's probability; no prompts give None.

    >>> prompts_of(service, "Left pleural effusion.")
    ('Left pleural effusion.', Prompts(('Left pleural effusion.',), ('No left pleural effusion.',)))
    """
    plain = _plain(sentence)
    for name, prompts in service.prompts.items():
        if plain == _plain(name) or plain in map(_plain, prompts.positive):
            return name, prompts
    opposite = _opposite(sentence)
    return sentence, Prompts((sentence,), opposite) if opposite else None


def _opposite(sentence: str) -> tuple[str, ...]:
    """Sentences that deny the only finding a sentence affirms, or affirm the only one it denies."""
    labels = sentence_labels(sentence)
    named = prompts_for(language_of(sentence) or "en", labels)
    first = next(iter(named), None)
    values = {label.value for label in labels.values()}
    if first is None or values not in ({0}, {1}) or {*labels} - {first, "Lung Opacity"}:
        return ()
    positive, negative = named[first]
    return negative if values == {1} else positive


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".")
