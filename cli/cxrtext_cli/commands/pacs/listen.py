"""``cxrtext listen`` and ``cxrtext hl7 listen``: services that take what is sent."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxrtext.errors import InputError
from cxrtext_cli.commands.pacs import inbox
from cxrtext_cli.given import CHARSET, FILE, MODELED_INDEX, NEW_FOLDER, checked
from cxrtext_cli.options import Device, pick_device, say

if TYPE_CHECKING:
    import ssl

    from cxrtext.pacs.inbox.worker import WorkerSettings

hl7 = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Reports over HL7 v2.")

Folder = Annotated[
    Path, typer.Argument(help="Folder of the inbox; made when missing.", metavar="INBOX"),
    NEW_FOLDER,
]  # fmt: skip
Reserve = Annotated[
    float, typer.Option(min=0, help="GiB that stay free on the disk; below, nothing is taken.")
]
TlsCert = Annotated[
    Path | None, typer.Option(help="Our certificate (PEM); connections are encrypted."), FILE
]
TlsKey = Annotated[
    Path | None, typer.Option(help="Its key (PEM), which its owner alone may read."), FILE
]
TlsCa = Annotated[
    Path | None,
    typer.Option(help="Authorities (PEM); a peer then needs a certificate by one."),
    FILE,
]
LOOK_S = 0.5


def listen(
    folder: Folder,
    index: Annotated[
        Path | None,
        typer.Option(help="Index to take objects into meanwhile; else 'inbox work' does."),
        MODELED_INDEX,
    ] = None,
    archive: inbox.Archive = None,
    peers: inbox.Peers = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A title that may send, or TITLE=NAME; repeatable.")
    ] = None,
    aet: Annotated[str, typer.Option(help="Our title, which peers call.")] = "CXRTEXT",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 11112,
    associations: Annotated[
        int, typer.Option(min=1, max=256, help="Associations that may be open at a time.")
    ] = 8,
    max_megabytes: Annotated[
        int, typer.Option(min=1, max=1024, help="Largest object, in MiB; held in memory.")
    ] = 256,
    reserve: Reserve = 1.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    hash_ids: inbox.HashIds = None,
    keep: inbox.Keep = "",
    issuer: inbox.Issuer = "",
    readers: inbox.Readers = 2,
    device: Device = "auto",
) -> None:
    """Take DICOM objects by C-STORE until it is stopped; success says that one is on disk.

    Titles that may send are those of --peers and --allow. With --index, objects are searchable
    and labeled moments later.
    """
    settings = None
    if index is not None:
        settings = inbox.worker_settings(
            index, archive, pick_device(device), hash_ids, keep, issuer, readers, peers
        )
    from cxrtext.pacs import need
    from cxrtext.pacs.inbox.queue import Inbox

    need("pynetdicom")
    from cxrtext.pacs.dimse.server import Caps, Listener
    from cxrtext.pacs.peers import read_peers

    listed = {} if peers is None else read_peers(peers)
    # The names of peers by the titles that they send with.
    allowed = {peer.dimse.aet: name for name, peer in listed.items() if peer.dimse is not None}
    allowed |= dict(_pair(one) for one in allow or [])
    tls = _tls(tls_cert, tls_key, tls_ca)
    caps = Caps(associations, max_megabytes * 2**20)
    with Inbox(folder, reserve=round(reserve * 2**30)) as opened, Listener(
        opened, allowed, ae_title=aet, host=host, port=port, caps=caps, tls=tls, say=say
    ) as listener:  # fmt: skip
        spoken = " (TLS)" if tls else ""
        typer.echo(f"{aet} listens on {host}:{listener.port}{spoken}; from {', '.join(allowed)}")
        _until_stopped(folder, settings)


@hl7.command("listen", short_help="Take reports over MLLP until it is stopped.")
@checked
def hl7_listen(
    folder: Folder,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="An address that may send, or ADDRESS=NAME; repeatable."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 2575,
    charset: Annotated[
        str,
        typer.Option(help="Of messages that name none, as MSH-18: 8859/1; default UTF-8."),
        CHARSET,
    ] = "",
    reserve: Reserve = 1.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Take HL7 reports over MLLP until it is stopped; AA says that one is on disk.

    A message that cannot be read is answered AE, one of another kind AR; both lie in
    INBOX/bad.
    """
    from cxrtext.pacs.hl7.mllp import MessageListener
    from cxrtext.pacs.inbox.queue import Inbox

    allowed = dict(_pair(one) for one in allow or [])
    if not allowed and host not in ("127.0.0.1", "::1", "localhost"):
        raise InputError("beyond this machine, name who may send: --allow ADDRESS=NAME")
    tls = _tls(tls_cert, tls_key, tls_ca)
    with Inbox(folder, reserve=round(reserve * 2**30)) as opened, MessageListener(
        opened, allowed, host=host, port=port, charset=charset, tls=tls, say=say
    ) as listener:  # fmt: skip
        typer.echo(f"HL7 (MLLP{' over TLS' if tls else ''}) on {host}:{listener.port}")
        _until_stopped(folder, None)


def _until_stopped(folder: Path, settings: "WorkerSettings | None") -> None:
    with ExitStack() as stack:
        worker = None
        if settings is not None:  # it imports what computes, which a listener alone does not need
            from cxrtext.pacs.inbox.worker import WorkerBeside

            worker = stack.enter_context(WorkerBeside(folder, settings, say))
        try:
            while True:
                time.sleep(LOOK_S)
                if worker is not None:
                    worker.look()
        except KeyboardInterrupt:
            say("stopped; what was acknowledged is kept")


def _pair(text: str) -> tuple[str, str]:
    import re

    what, _, name = text.partition("=")
    name = name or what
    if not what or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._:@-]{0,63}", name):
        raise InputError(f"--allow '{text}': give such as ARCHIVE, or ARCHIVE=name")
    return what, name


def _tls(cert: Path | None, key: Path | None, ca: Path | None) -> "ssl.SSLContext | None":
    if (cert is None) != (key is None) or (ca is not None and cert is None):
        raise InputError("--tls-cert and --tls-key go together, and --tls-ca with them")
    if cert is None or key is None:
        return None
    from cxrtext.pacs.tls import server_context

    return server_context(cert, key, ca)
