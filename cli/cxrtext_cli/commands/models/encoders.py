"""``cxrtext encoders``."""

import typer


def encoders() -> None:
    """List image encoders that 'cxrtext fit --encoder' can start with, and finished pairs.

    This does not ask the hub. Licenses change: read the card of your revision.
    """
    from cxrtext.project.encoders import listed_encoders

    for one in listed_encoders():
        size = f"{one.megabytes} MB" if one.megabytes else "size: see its card"
        here = f"on this machine: {one.here}" if one.here else "not on this machine"
        tried = "yes" if one.tried else "no"
        typer.echo(f"{one.name}  ({one.use}; {size}; {here}; tried here: {tried})")
        typer.echo(f"  {one.what}, trained on {one.trained_on}")
        typer.echo(f"  licence: {one.licence}")
        typer.echo(f"  without a network: {one.offline}")
