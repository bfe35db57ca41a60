"""What serve.py compares the server with.

    python benchmarks/serving/peer.py loop QUESTION SECONDS THREADS MODEL INDEX PICTURES
    python benchmarks/serving/peer.py handler PORT THREADS MODEL INDEX

``loop`` asks the same model the same questions one after the other in one process, without HTTP;
``handler`` is a FastAPI application as it is commonly written: the model at the top, one function a
route, each request on a thread of its own, nothing put together, nothing remembered.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from load import WARM_SECONDS, image_ids, marked, sentence

from cxrtext import load_service
from cxrtext.images import read_image_bytes
from cxrtext.service import Service


def _questions(
    service: Service, question: str, pictures: Path, index: Path
) -> Iterator[Callable[[], Any]]:
    ids = image_ids(index)
    picture = b""
    if question in ("classify-small", "classify-large"):
        picture = (pictures / f"{question.rpartition('-')[2]}.png").read_bytes()
    number = 0
    while True:
        number += 1
        name, said = ids[number % len(ids)], sentence(number)
        data = b"".join(marked(picture, number)) if picture else b""
        yield {
            "classify-small": lambda data=data: _classify(service, data),
            "classify-large": lambda data=data: _classify(service, data),
            "classify-id": lambda name=name: service.classify(service.embedded(name)),
            "ground-id": lambda name=name, said=said: service.ground(service.embedded(name), said),
            "search": lambda said=said: service.search(
                service.make_query(service.readings([said])), 10
            ),
            "search-id": lambda name=name: service.search(
                service.make_query(image=service.embedded(name)), 10
            ),
        }[question]


def _classify(service: Service, data: bytes) -> Any:
    return service.classify(service.embed(read_image_bytes(data, "image")))


def loop(question: str, seconds: float, threads: int, model: Path, index: Path, pics: Path) -> Any:
    """Questions a second, and their latencies, without a server."""
    torch.set_num_threads(threads)
    service = load_service(model, index)
    questions = _questions(service, question, pics, index)
    latencies: list[float] = []
    begun = time.perf_counter()
    while (now := time.perf_counter()) < begun + WARM_SECONDS + seconds:
        next(questions)()
        if now > begun + WARM_SECONDS:
            latencies.append(time.perf_counter() - now)
    service.close()
    return {"latencies": latencies, "seconds": seconds, "statuses": {"200": len(latencies)}}


def handler(port: int, threads: int, model: Path, index: Path) -> None:
    """Serve as a peer would."""
    import uvicorn
    from fastapi import FastAPI, Form, UploadFile

    torch.set_num_threads(threads)
    service = load_service(model, index)
    app = FastAPI()

    def _image(image: UploadFile | None, image_id: str | None) -> Any:
        if image is not None:
            return service.embed(read_image_bytes(image.file.read(), "image"))
        return service.embedded(image_id or "")

    @app.post("/v1/classify")
    def classify(image: UploadFile | None = None, image_id: str | None = Form(None)) -> Any:
        found = service.classify(_image(image, image_id))
        return [{"finding": f.finding, "probability": f.probability} for f in found]

    @app.post("/v1/ground")
    def ground(
        sentence: str = Form(),
        image: UploadFile | None = None,
        image_id: str | None = Form(None),
    ) -> Any:
        found = service.ground(_image(image, image_id), sentence)
        return {"score": found.score, "grid": found.grid.tolist(), "peak": found.peak}

    @app.post("/v1/search")
    def search(
        query: str | None = Form(None), image_id: str | None = Form(None), k: int = Form(10)
    ) -> Any:
        image = None if query is not None else service.embedded(image_id or "")
        read = [] if query is None else service.readings([query])
        hits = service.search(service.make_query(read, image=image), k).hits
        return [{"image": h.image.image, "study": h.image.study_id, "score": h.score} for h in hits]

    uvicorn.run(app, port=port, log_level="warning")


def main() -> None:
    if sys.argv[1] == "loop":
        question, seconds, threads, *places = sys.argv[2:]
        found = loop(question, float(seconds), int(threads), *(Path(p) for p in places))
        print(json.dumps(found))
    else:
        port, threads, *places = sys.argv[2:]
        handler(int(port), int(threads), *(Path(p) for p in places))


if __name__ == "__main__":
    main()
