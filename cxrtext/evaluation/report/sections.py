"""What stands in a report, section by section."""

from cxrtext.evaluation.blocks import Figure, Gallery, Section, Table, Text
from cxrtext.evaluation.report.definitions import DEFINITIONS
from cxrtext.evaluation.report.figures import classification_figures, grounding_figures
from cxrtext.evaluation.report.paper import BESIDE
from cxrtext.evaluation.report.paper_tables import table1, table3, table4, table5
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.tables import (
    box_retrieval_rows,
    classification_rows,
    grounding_rows,
    probe_rows,
    retrieval_rows,
    slice_rows,
    threshold_rows,
)

UNCERTAIN = {
    "ignore": "too",
    "positive": "counted as present",
    "negative": "counted as absent",
}


def paper_section(result: Evaluation) -> Section:
    """All three tasks beside the paper's."""
    return Section("Beside the paper", [Text(BESIDE), table1(result)])


def classification_section(result: Evaluation) -> Section:
    """Zero-shot classification."""
    settings = result.settings
    section = Section("Zero-shot classification")
    section.blocks += [
        Text(
            "The label is the prompt with the higher image-sentence score; AUC and AP are those "
            "of the score difference. Several prompts of a side are averaged as "
            f"{settings.get('average')}. Images with an unknown label are left out, those with an "
            f"uncertain one {UNCERTAIN.get(str(settings.get('uncertain')), '')}."
        ),
        _last_strong(classification_rows(result)),
    ]
    rows = threshold_rows(result)
    if len(rows) > 1:
        section.blocks += [
            Text(
                "Threshold and calibration, both chosen on validation images. Where ECE stays "
                "high with a temperature T and falls with Platt's scale and shift, the two "
                "prompts lean to one side: calibrate before a probability is read."
            ),
            Table(rows),
        ]
    section.blocks += classification_figures(result)
    section.blocks.append(table3(result))
    return section


def grounding_section(result: Evaluation) -> Section:
    """Grounding."""
    section = Section("Grounding")
    sigma = result.settings.get("sigma")
    smooth = f", smoothed by a Gaussian of {sigma} regions" if sigma else ""
    section.blocks += [
        Text(
            "For every sentence with boxes, the scores of the image's regions are enlarged to "
            f"original pixels{smooth}; outside the crop that the model sees the map is not "
            "defined. Several boxes of a sentence are one area."
        ),
        _last_strong(grounding_rows(result)),
    ]
    section.blocks += grounding_figures(result)
    section.blocks.append(table4(result))
    return section


def box_section(result: Evaluation) -> Section:
    """Retrieval between boxes and sentences."""
    apart = result.settings.get("exclude_same_patient")
    return Section(
        "Retrieval of boxes and sentences",
        [
            Text(
                f"{result.box_retrieval['pairs']} pairs of a box and its sentence. The feature of "
                "a box is the mean of its regions (RoIAlign). In the first two rows the one right "
                "answer is the pair's own, as in the paper; an equal sentence of another box "
                "counts against the model. In the variant any pair with an equal sentence is "
                "right." + (" Other pairs of the query's patient are left out." if apart else "")
            ),
            Table(box_retrieval_rows(result)),
            table5(result),
        ],
    )


def retrieval_section(result: Evaluation) -> Section:
    """Retrieval between images and sentences."""
    apart = result.settings.get("exclude_same_patient")
    return Section(
        "Retrieval of sentences and images",
        [
            Text(
                "Queries and candidates are the images of the split and the distinct sentences of "
                "their reports; every image whose report holds the sentence is a right answer; "
                "ties count against the model. A sentence is drawn with the patient of its first "
                "report."
                + (" Other candidates of the query's patient are left out." if apart else "")
            ),
            Table(retrieval_rows(result)),
        ],
    )


def slices_section(result: Evaluation) -> Section:
    """AUC by group."""
    section = Section("Groups of patients")
    section.blocks.append(
        Text(
            "AUC of zero-shot classification within each group with at least 10 images with the "
            "finding and 10 without. A gap is never below 0 and grows by chance with the number "
            "of groups: read it beside the intervals of the groups."
        )
    )
    for column in result.slices:
        name = "age band" if column == "age" else column
        section.blocks.append(Table(slice_rows(result, column), f"By {name}"))
    return section


def probe_section(result: Evaluation) -> Section:
    """Linear probes."""
    return Section(
        "Linear probes",
        [
            Text(
                "Logistic regressions on the mean region of each image, the model frozen. Few "
                "labels: mean, least and greatest AUC of five draws of so many images with the "
                "finding and as many without."
            ),
            Table(probe_rows(result)),
        ],
    )


def definitions_section() -> Section:
    """One line a measure."""
    rows = [["measure", "definition"], *([name, text] for name, text in DEFINITIONS.items())]
    return Section("Definitions", [Table(rows)])


def _last_strong(rows: list[list[str]]) -> Table:
    return Table(rows, strong=frozenset({len(rows) - 1}))


def sections(result: Evaluation, extra: dict[str, list[Figure | Gallery]]) -> list[Section]:
    """The sections of a report.

    Args:
        result: What was measured.
        extra: Drawings and pictures to be added, by the title of their section.
    """
    found = [paper_section(result)]
    for part, make in (
        (result.classification, classification_section),
        (result.grounding, grounding_section),
        (result.box_retrieval, box_section),
        (result.retrieval, retrieval_section),
        (result.slices, slices_section),
        (result.probe, probe_section),
    ):
        if part:
            found.append(make(result))
    for section in found:
        section.blocks += extra.get(section.title, [])
    if "Sentences and prompts" in extra:
        found.append(Section("Sentences and prompts", list(extra["Sentences and prompts"])))
    found.append(definitions_section())
    if result.left_out:
        found.append(Section("Left out", [Text(line) for line in result.left_out]))
    return found
