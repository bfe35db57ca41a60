"""The distinct sentences of a cohort's reports."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cxrtext.evaluation.cohort import Cohort
from cxrtext.records import Sentence

Answers = dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Wording:
    """The distinct sentences of a cohort's reports.

    Args:
        texts: [S].
        times: [S], how often each stands in a report.
        images: By sentence, the images whose report holds it.
        related: By sentence, the images of every patient with a report that holds it.
        patients: [S], the patient of the first report that holds it.
    """

    texts: list[str]
    times: list[int]
    images: Answers
    related: Answers
    patients: list[str]


def gather_wording(cohort: Cohort, sentences: Sequence[Sentence]) -> Wording:
    """Distinct sentences, and the images that each is right for."""
    of_study: dict[str, list[int]] = defaultdict(list)
    of_patient: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(cohort.records):
        of_study[record.study_id].append(place)
        of_patient[record.patient_id].append(place)
    numbers: dict[str, int] = {}
    times: list[int] = []
    patients: list[str] = []
    images: dict[int, set[int]] = defaultdict(set)
    related: dict[int, set[int]] = defaultdict(set)
    for sentence in sentences:
        places = of_study.get(sentence.study_id)
        if not places:
            continue
        patient = cohort.records[places[0]].patient_id
        number = numbers.setdefault(sentence.sentence, len(numbers))
        if number == len(times):
            times.append(0)
            patients.append(patient)
        times[number] += 1
        images[number].update(places)
        related[number].update(of_patient[patient])
    return Wording(list(numbers), times, _sorted(images), _sorted(related), patients)


def _sorted(sets: dict[int, set[int]]) -> Answers:
    return {number: sorted(places) for number, places in sets.items()}


def turned(answers: Answers) -> Answers:
    """Sentences by image, from images by sentence."""
    turned: Answers = defaultdict(list)
    for number, places in answers.items():
        for place in places:
            turned[place].append(number)
    return turned
