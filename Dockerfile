# The service and the command line, as an unprivileged user; data is in /data.
#
# docker build --build-arg PYTHON_DIGEST=sha256:... .
# The digest has no default, so every build names the image it was checked with. The current one:
# docker buildx imagetools inspect python:3.11-slim --format '{{.Manifest.Digest}}'
ARG PYTHON_DIGEST
FROM python:3.11-slim@${PYTHON_DIGEST}

RUN useradd --create-home --uid 10001 bridgehash \
 && install --directory --owner=bridgehash /data /var/cache/numba
ENV PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/var/cache/numba OMP_NUM_THREADS=1

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY bridgehash ./bridgehash
RUN pip install --no-cache-dir -c constraints.txt '.[serve,postgres]'

USER bridgehash
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/ready', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["bridgehash"]
CMD ["--help"]
