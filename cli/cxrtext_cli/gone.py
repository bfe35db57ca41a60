"""Commands that no longer exist: what to do instead, for those who still type them."""

from typing import Any

import typer.core

from cxrtext.errors import InputError

GATEWAY = {
    **dict.fromkeys(("follow", "listen", "hl7"), "run"),
    **{"pull": "run --once", "inbox": "status", "results": "results", "peers": "check"},
}
"""Commands of hospital systems that are now below ``cxrtext gateway``."""

GONE = {
    **{name: f"is now 'cxrtext gateway {now}'" for name, now in GATEWAY.items()},
    "audit": "was removed: on real reports it found none of the planted disagreements at q <= .1; "
    "'cxrtext verify' judges one report against its film",
    "learn": "was removed: 200 marks did not improve a model measurably; "
    "'cxrtext marks' still writes marks as labels and boxes",
    "learn-changes": "was removed: it was shown on drawings only; "
    "the page still shows two films of a patient side by side",
    "negatives": "was removed; benchmarks/language/negatives.py prints the same figures",
    "probe": "was removed; 'cxrtext evaluate --probe' fits linear probes to a checkpoint's images",
    "results make": "was removed: a peer's rule with 'daily: 2' sends the results of one image",
    "results preview": "is now 'cxrtext gateway results approve'; it sends nothing without --yes",
    "index publish": "was removed; for more readers, make a copy with 'cxrtext backup' "
    "and 'cxrtext restore', and run 'cxrtext serve' on it",
    "index pull": "was removed; for more readers, make a copy with 'cxrtext backup' "
    "and 'cxrtext restore', and run 'cxrtext serve' on it",
    "index move": "was removed; after moving a data folder or a model, run "
    "'cxrtext index build' again with the new paths and the same --out",
    "benchmark": "is now 'cxrtext evaluate PLACE --recipe NAME --data DATA'",
    "index rebuild": "is now 'cxrtext index compact', with --model for another model",
    "job embed": "is now 'cxrtext index build --workers N', or --address of a cluster",
    "job status": "was removed: the command that makes the shards says how far it is",
    "job score": "was removed; 'cxrtext score-text' scores each sentence once and resumes",
    "job decode": "was removed; 'cxrtext train' and 'cxrtext index build' decode images once "
    "into their cache",
    "job finish": "was removed; 'cxrtext index build --workers N' makes the index when all shards "
    "are there",
    "keys list": "was removed: the file has a line a key, with its name, scopes and last day",
}
"""What became of a command, by its name below ``cxrtext``."""


GONE_OPTIONS = {
    **{
        f"evaluate {name}": "was removed: set it in a recipe of your own (--recipe FILE.yaml)"
        for name in ("--average", "--exclude-same-patient")
    },
    "evaluate --boxes": "was removed: put the file into the data folder as boxes.json or boxes.csv",
    "evaluate --calibrate": "was removed: run 'cxrtext calibrate'",
    "evaluate --export": "was removed: cxrtext.open(PLACE).embed(IMAGES) gives them in Python",
    **{
        f"check-data --{name}": f"was removed: put the table into the data folder as {name}.csv"
        for name in ("reports", "labels", "boxes")
    },
    **{
        f"{name} --device": "was removed: set CUDA_VISIBLE_DEVICES= to compute without a GPU"
        for name in ("search", "ground", "verify")
    },
    "import --seed": "was removed: a column 'split' in the table says another split",
    "import --pixels": "was removed: 'cxrtext check-data' looks at every image",
    "import --require-view": "was removed: take rows without a view out of manifest.csv",
    "serve --cors-origin": "was removed: let nginx serve the other site's pages and the API "
    "under one name",
    "evaluate --prevalence": "was removed: multiply the odds of a finding by the likelihood ratio "
    "of a result",
    "benchmark --link": "was removed: 'cxrtext import' makes the data folder",
    "check-data --cache": "was removed: what was seen is kept in the data folder",
    "fit --improve": "was removed: it was shown on drawings only; 'cxrtext fit --encoder' trains "
    "on your reports, over the image side of a SigLIP or CLIP too",
    "fit --weights": "is now --encoder, with the folder of a vision model or the name of "
    "one ('cxrtext encoders')",
    "serve --rate-limit": "was removed: nginx bounds rates (docker/nginx)",
    "serve --drain-seconds": "was removed: accepted requests are finished in at most 30 s",
    "serve --max-megabytes": "was removed: a request has at most 64 MiB",
    "compare --primary": "was removed: a primary measure is declared before the figures are seen, "
    "with 'cxrtext evaluate --primary'",
    "delete --from": "was removed: xargs cxrtext index delete INDEX < FILE",
    "build --wait": "was removed: the command waits a minute for another that writes",
    "delete --wait": "was removed: the command waits a minute for another that writes",
    "import --sentences-from": "is now --label-sentences; its sentences are plain ones",
    "import --same-images": "was removed: patients who share a picture share a split",
}
"""What became of an option, by its command."""


class Commands(typer.core.TyperGroup):
    """A group of commands that says what became of those it no longer has."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        below = [ctx.info_name] if ctx.parent else []
        for words in (args[:2], args[:1]):  # a group may be gone with its commands
            name = " ".join([*below, *words])
            if args and args[0] not in self.commands and name in GONE:
                raise InputError(f"'cxrtext {name}' {GONE[name]}")
        return super().resolve_command(ctx, args)
