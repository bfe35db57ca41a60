"""The part of a report that says by which recipe it was made."""

from cxrtext.evaluation.result import Evaluation
from cxrtext.page import Block, Bullets, Table, Text, number


def benchmark_blocks(result: Evaluation) -> list[Block]:
    """What was measured by which recipe, and what that rests on."""
    note = result.recipe
    listed, primary = note["list"], note["primary"]
    value = "not measured" if primary["value"] is None else number(primary["value"], 3)
    if primary["low"] is not None:
        value += f" [{number(primary['low'], 3)}, {number(primary['high'], 3)}]"
    official = listed["official"]
    if official is None:
        compared = "none of the official lists"
    elif official["sha256"]:
        compared = f"{official['title']}, equal by digest ({official['source']})"
    else:
        compared = f"{official['title']}, by count alone ({official['source']})"
    form = note["preprocessing"] or {}
    prepared = ", ".join(f"{name} {form[name]}" for name in ("fit", "resize", "crop") if form)
    rows = [
        ["", ""],
        ["recipe", f"{note['recipe']}, version {note['version']}: {note['title']}"],
        ["digest of the recipe", note["recipe_sha256"]],
        [f"primary measure: {primary['measure']}", value],
        ["images measured", f"{note['images']:,} of {listed['measured']:,}"],
        [f"list ({listed['file']})", f"{listed['images']:,} images, SHA-256 {listed['sha256']}"],
        ["compared with", compared],
        ["prompts", note["prompts_source"] or "the phrases of the boxes"],
        ["preprocessing", f"the checkpoint's own: {prepared}"],
    ]
    blocks: list[Block] = [Table(rows, words=True)]
    if note["facts"]:
        blocks += [Text("What the recipe rests on:"), Bullets(note["facts"])]
    if note["not_had"]:
        blocks += [Text("What could not be verified:"), Bullets(note["not_had"])]
    return blocks
