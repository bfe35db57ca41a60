"""Words that any sentence may use, the commonest first, and their usual misspellings."""

WORDS: dict[str, tuple[str, ...]] = {
    "there": ("There is", "There is", "There appears to be"),
    "seen": (
        "is seen",
        "is present",
        "is noted",
        "is identified",
        "is demonstrated",
        "is visualized",
        "is evident",
        "is observed",
    ),
    "are": (
        "are seen",
        "are present",
        "are noted",
        "are identified",
        "are demonstrated",
        "are visualized",
        "are evident",
    ),
    "within": (
        "within normal limits",
        "normal",
        "unremarkable",
        "normal in appearance",
        "grossly normal",
        "grossly unremarkable",
    ),
    "is": ("is", "is", "appears"),
    "isare": ("are", "are", "appear"),
    "mean": (
        "consistent with",
        "compatible with",
        "suggestive of",
        "in keeping with",
        "representing",
        "reflecting",
        "most consistent with",
    ),
    "may": (
        "may represent",
        "could represent",
        "may reflect",
        "could be due to",
        "possibly representing",
        "concerning for",
        "suspicious for",
    ),
}
"""Fillers of the slots that a caller does not give."""

MISSPELLINGS: dict[str, tuple[str, ...]] = {
    "effusion": ("effussion", "efusion", "effsion"),
    "ardiomegaly": ("ardiomegally", "ardiomegay"),
    "pneumothorax": ("pneumothorx", "pnuemothorax", "pneumothroax"),
    "consolidation": ("consoldiation", "consolodation"),
    "atelectasis": ("atelectasi", "atelectsis", "atalectasis"),
    "silhouette": ("silhoutte", "sillhouette"),
    "mediastinal": ("mediastnal", "mediastianl"),
    "degenerative": ("degenrative",),
    "costophrenic": ("costophenic",),
    "calcified": ("calcifed",),
    "pulmonary": ("pulmonry", "pumonary"),
    "endotracheal": ("endotrachial",),
    "emphysematous": ("emphysemtous",),
    "unchanged": ("unchaged",),
    "opacity": ("opactiy",),
    "limits": ("limts",),
}
"""Slips by correct spelling, each written at most once in a sentence."""
