# The command `cxrtext` and its server; how to build and run it: docker/README.md

# A tag can be given other content; with @sha256:… it is one image for ever (docker/README.md).
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
# A package index besides pip's own one: chooses PyTorch's CPU or CUDA wheels.
ARG PIP_EXTRA_INDEX_URL=""
# Optional dependencies, such as "pacs".
ARG EXTRAS=""
# "yes" takes every file but PyTorch's by its SHA-256; for CPython 3.11 on x86-64 alone.
ARG HASHED="no"

RUN python3 -m venv /opt/cxrtext
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY docker/locks docker/locks
# The dependencies with empty packages first, so that a change of the source does not fetch them anew.
RUN mkdir -p cxrtext cli/cxrtext_cli api/cxrtext_api \
    && touch cxrtext/__init__.py cli/cxrtext_cli/__init__.py api/cxrtext_api/__init__.py \
    && if [ "$HASHED" = yes ]; then \
        case "$EXTRAS" in \
            ""|pacs|tensorboard) lock="${EXTRAS:-server}" ;; \
            *) echo "no file in docker/locks has EXTRAS=$EXTRAS: build with HASHED=no" >&2; exit 1 ;; \
        esac \
        && /opt/cxrtext/bin/pip install --no-cache-dir --no-deps --require-hashes -r "docker/locks/$lock.txt" \
        && /opt/cxrtext/bin/pip install --no-cache-dir -c constraints.txt torch; \
    else \
        /opt/cxrtext/bin/pip install --no-cache-dir -c constraints.txt ".${EXTRAS:+[$EXTRAS]}"; \
    fi
COPY cxrtext cxrtext
COPY cli cli
COPY api api
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --no-deps --require-hashes -r docker/locks/build.txt \
    && /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /opt/built . \
    && /opt/cxrtext/bin/pip install --no-cache-dir --no-deps --force-reinstall /opt/built/*.whl \
    && /opt/cxrtext/bin/pip check \
    && /opt/cxrtext/bin/pip uninstall --yes pip

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="cxrtext" \
      org.opencontainers.image.description="Search, label and ground chest X-rays in plain language. Research use only; not a medical device." \
      org.opencontainers.image.licenses="Apache-2.0"

# Debian packages besides, such as "tesseract-ocr" (`burnt_in` of a gateway).
ARG PACKAGES=""
RUN if [ -n "$PACKAGES" ]; then \
        apt-get update && apt-get install -y --no-install-recommends $PACKAGES \
        && rm -rf /var/lib/apt/lists/*; \
    fi
RUN groupadd --gid 10001 cxrtext \
    && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /tmp \
       --shell /usr/sbin/nologin cxrtext \
    && install -d -o cxrtext -g cxrtext /data /cache /index
COPY --from=build /opt/cxrtext /opt/cxrtext

# Threads that wait sleep: those that spin cost a server with few cores most of its speed.
ENV PATH=/opt/cxrtext/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    HF_HOME=/cache/huggingface \
    HF_HUB_OFFLINE=1 \
    OMP_WAIT_POLICY=PASSIVE \
    GOMP_SPINCOUNT=0

USER 10001:10001
WORKDIR /data
EXPOSE 8000
# Not through urllib, which would ask a proxy of the environment.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8000, timeout=4); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["cxrtext"]
CMD ["serve", "--host", "0.0.0.0", "/checkpoint", "/index"]
