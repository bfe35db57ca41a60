"""What a model finds of a sentence in an image: how likely it is, and where."""

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
    probability: float | None  # None where no sentence that says the opposite is known
    calibrated: bool = False
    opposite: tuple[str, ...] = ()  # the sentences that the probability is against
    unlike: bool = False  # whether image or sentence is unlike those that the model was trained on

    @property
    def present(self) -> bool:
        """Whether any region of the image stands out, so that there is something to point at."""
        return self.grounding.stands_out is not False and bool(self.grounding.boxes)

    @property
    def percent(self) -> str:
        """The probability as a person reads it; "" where there is none."""
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

    The probability is that of a finding of the service's prompts that the sentence is a positive
    prompt of, calibrated where the checkpoint has that; else the sentence's against its denial.
    """
    grounding = service.ground(image, sentence, as_written=True)
    name, asked = prompts_of(service, sentence)
    found = None
    if asked is not None:
        (found,) = service.classify(image, {name: asked})
    far = service.familiar.of_sentence(sentence)
    return Finding(
        sentence,
        service.model.fingerprint,
        grounding,
        None if found is None else found.probability,
        found is not None and found.calibrated,
        () if asked is None else asked.negative,
        image.is_unlike or (far is not None and far.flagged),
    )


def prompts_of(service: Service, sentence: str) -> tuple[str, Prompts | None]:
    """The prompts whose probability a sentence has, with their finding; None where there are none.

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
    """What denies the one finding that a sentence affirms, or affirms the one that it denies."""
    said = sentence_labels(sentence)
    named = prompts_for(language_of(sentence) or "en", said)
    first = next(iter(named), None)
    values = {label.value for label in said.values()}
    if first is None or values not in ({0}, {1}) or {*said} - {first, "Lung Opacity"}:
        return ()
    positive, negative = named[first]
    return negative if values == {1} else positive


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".")
