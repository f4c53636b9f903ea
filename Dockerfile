# The service and the command line, as an unprivileged user; data is in /data.
#
# The digest of the newest image:
# docker buildx imagetools inspect python:3.11-slim --format '{{.Manifest.Digest}}'
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

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
