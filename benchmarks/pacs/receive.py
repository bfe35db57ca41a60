"""How quickly objects that are sent by C-STORE are on disk, and in the index with their labels.

    python benchmarks/pacs/receive.py objects FOLDER --images DATA/images --count 120 --side 2048
    python benchmarks/pacs/receive.py latency FOLDER --port 11112 --index INDEX
    python benchmarks/pacs/receive.py rate FOLDER
    python benchmarks/pacs/receive.py push FOLDER

``latency`` sends one object a second to a running gateway and looks, every 10
ms, whether the catalogue has it with its labels: from then on the next search of a running server
finds it.  ``rate`` sends all objects over four associations of DCMTK's storescu to the
gateway without a project, to a plain service of pynetdicom that writes files (without waiting for
the disk), and to the same one with an fsync of each file.  ``push`` lets an Orthanc of its own
(Debian's; a test peer only) push all objects, by its ``/modalities/X/store``, to the gateway
and to DCMTK's storescp, which waits for no disk.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image
from pydicom import dcmread
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian, generate_uid
from pynetdicom import AE, AllStoragePresentationContexts, _config, evt
from pynetdicom.presentation import build_context

DX = UID("1.2.840.10008.5.1.4.1.1.1.1")
ASSOCIATIONS = 4
STORESCP = shutil.which("storescp") or "storescp"
STORESCU = shutil.which("storescu") or "storescu"


def make_objects(folder: Path, images: Path, count: int, side: int) -> None:
    """Make DX objects of ``side`` squared 12-bit pixels out of pictures, with noise."""
    folder.mkdir(parents=True)
    paths = sorted(images.iterdir())
    for i in range(count):
        picture = Image.open(paths[i % len(paths)]).convert("L").resize((side, side))
        noise = np.random.default_rng(i).normal(0, 12, (side, side))
        pixels = np.clip(np.asarray(picture, float) * 16 + noise, 0, 4095).astype("<u2")
        meta = FileMetaDataset()
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        meta.MediaStorageSOPClassUID = DX
        meta.MediaStorageSOPInstanceUID = generate_uid()
        one = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        one.SOPClassUID, one.SOPInstanceUID = DX, meta.MediaStorageSOPInstanceUID
        one.StudyInstanceUID, one.SeriesInstanceUID = generate_uid(), generate_uid()
        one.PatientID, one.AccessionNumber = f"P{i}", f"A{i}"
        one.Modality, one.ViewPosition, one.BodyPartExamined = "DX", "PA", "CHEST"
        one.PatientOrientation = ["L", "F"]
        one.Rows = one.Columns = side
        one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
        one.BitsAllocated, one.BitsStored, one.HighBit, one.PixelRepresentation = 16, 12, 11, 0
        one.PixelData = pixels.tobytes()
        one.save_as(folder / f"{i:05d}.dcm", enforce_file_format=True)
    print(f"{count} objects of {side}² pixels, {len(pixels.tobytes()) / 1e6:.1f} MB each")


def latency(folder: Path, port: int, index: Path) -> None:
    """Send one object a second; print how long each took to be in the index."""
    from cxrtext.index.store.catalogue import CATALOGUE, Catalogue

    ae = AE(ae_title="STORESCU")
    ae.requested_contexts = [build_context(DX, ExplicitVRLittleEndian)]
    association = ae.associate("127.0.0.1", port, ae_title="CXRTEXT")
    assert association.is_established
    sent: dict[str, float] = {}
    stored, took = [], []
    files = sorted(folder.iterdir())

    def look() -> None:
        with Catalogue(index / CATALOGUE) as catalogue:
            model = catalogue.meta()["model"]
            while len(took) < len(files):
                for uid, begun in list(sent.items()):
                    image = catalogue.image(uid)
                    if image is not None and catalogue.labels([image.number], model)[image.number]:
                        took.append(time.monotonic() - begun)
                        del sent[uid]
                time.sleep(0.01)

    looking = threading.Thread(target=look)
    looking.start()
    begin = time.monotonic()
    for i, path in enumerate(files):
        one = dcmread(path)
        time.sleep(max(0.0, begin + i - time.monotonic()))
        now = sent[str(one.SOPInstanceUID)] = time.monotonic()
        assert association.send_c_store(one).Status == 0
        stored.append(time.monotonic() - now)
    association.release()
    looking.join()
    for name, values in (("acknowledged", stored), ("in the index, labeled", took)):
        p50, p99 = np.percentile(values, (50, 99))
        print(f"{name}: {len(values)} objects, p50 {p50:.2f} s, p99 {p99:.2f} s")


def send_all(folder: Path, port: int) -> float:
    """Objects a second over several associations of storescu."""
    files = sorted(map(str, folder.iterdir()))
    begin = time.monotonic()
    senders = [
        subprocess.Popen([STORESCU, "127.0.0.1", str(port), "-aec", "CXRTEXT", *files[i::4]])
        for i in range(ASSOCIATIONS)
    ]
    assert [sender.wait() for sender in senders] == [0] * ASSOCIATIONS
    return len(files) / (time.monotonic() - begin)


def plain(folder: Path, out: Path, *, sync: bool) -> float:
    """The rate of a service as pynetdicom's documentation has it."""
    number = iter(range(10**9))

    def store(event: evt.Event) -> int:
        with (out / f"{next(number)}.dcm").open("wb") as handle:
            handle.write(event.encoded_dataset())
            if sync:
                handle.flush()
                os.fsync(handle.fileno())
        return 0

    ae = AE(ae_title="CXRTEXT")
    ae.supported_contexts = AllStoragePresentationContexts
    _config.LOG_HANDLER_LEVEL = "none"
    server = ae.start_server(("127.0.0.1", 0), block=False, evt_handlers=[(evt.EVT_C_STORE, store)])
    try:
        return send_all(folder, server.server_address[1])
    finally:
        server.shutdown()


def part(out: Path, title: str, port: int = 0) -> list[str]:
    """The command of the gateway's listener for a title."""
    file = out / "gateway.yaml"
    file.touch(mode=0o600)
    file.write_text(f"dicom: {{port: {port}}}\npeers: [{{name: sender, titles: [{title}]}}]\n")
    command = str(Path(sys.executable).with_name("cxrtext"))
    return [command, "gateway", "run", str(file), "--part", "dicom"]


def ours(folder: Path, out: Path) -> float:
    """The rate of the gateway's listener."""
    command = part(out, "STORESCU")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        try:
            return send_all(folder, int(line.split("127.0.0.1:")[1]))
        finally:
            process.terminate()


def rate(folder: Path) -> None:
    """Print the rates of all services, three times each, in turn."""
    for _ in range(3):
        found = {}
        for name in ("plain", "plain with fsync", "gateway"):
            out = Path(tempfile.mkdtemp(dir=folder.parent))
            found[name] = (
                ours(folder, out) if name == "gateway"
                else plain(folder, out, sync=name != "plain")
            )  # fmt: skip
            shutil.rmtree(out)
        ratio = found["gateway"] / found["plain"]
        synced = found["gateway"] / found["plain with fsync"]
        print(
            ", ".join(f"{name} {value:.1f}/s" for name, value in found.items()),
            f"; ratio to plain {ratio:.2f}, with fsync {synced:.2f}",
        )


def push(folder: Path) -> None:
    """Print the rates of Orthanc's own push to both, three times each, in turn."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.pacs.orthanc import Orthanc, free_port

    ports = {"CXRTEXT": free_port(), "STORESCP": free_port()}
    place = Path(tempfile.mkdtemp(dir=folder.parent))
    (place / "dcmtk").mkdir()
    commands = [
        part(place, "ORTHANC", ports["CXRTEXT"]),
        [
            STORESCP,
            "-q",
            "+uf",
            "-od",
            place / "dcmtk",
            "-aet",
            "STORESCP",
            "+xa",
            ports["STORESCP"],
        ],
    ]
    orthanc = Orthanc(place, modalities=ports).start()
    services = [subprocess.Popen([*map(str, one)]) for one in commands]
    try:
        ids = orthanc.store(path.read_bytes() for path in sorted(folder.iterdir()))
        time.sleep(5)
        for _ in range(3):
            for name in ports:
                begin = time.monotonic()
                done = orthanc.ask("POST", f"/modalities/{name}/store", json=ids).json()
                took = time.monotonic() - begin
                assert done["FailedInstancesCount"] == 0
                print(f"{name}: {len(ids)} objects, {len(ids) / took:.1f}/s")
    finally:
        for service in services:
            service.terminate()
            service.wait()
        orthanc.kill()
        shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("objects", "latency", "rate", "push"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--port", type=int, default=11112)
    parser.add_argument("--index", type=Path)
    given = parser.parse_args()
    if given.what == "objects":
        make_objects(given.folder, given.images, given.count, given.side)
    elif given.what == "latency":
        latency(given.folder, given.port, given.index)
    elif given.what == "push":
        push(given.folder)
    else:
        rate(given.folder)


if __name__ == "__main__":
    main()
