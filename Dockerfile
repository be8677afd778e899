# The server and all it reads with, as a user without rights, for a read-only root file system:
#   docker build -t ragwright .
#   docker run --read-only --tmpfs /tmp -v "$PWD/project:/project" -p 127.0.0.1:8321:8321 ragwright
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY docs/guide docs/guide
RUN python -m venv /opt/ragwright \
    && /opt/ragwright/bin/pip install --no-cache-dir ".[docs,embed,jobs,lance,otel,pg,records,serve]"

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 ragwright && mkdir /project && chown 10001 /project
COPY --from=build /opt/ragwright /opt/ragwright
ENV PATH=/opt/ragwright/bin:$PATH PYTHONUNBUFFERED=1 HOME=/tmp
USER 10001
WORKDIR /project
VOLUME /project
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD \
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8321/healthz', timeout=4)"]
# Every address of the container; the server refuses to start until the project has a key:
#   docker run --rm -v "$PWD/project:/project" ragwright keys add NAME
ENTRYPOINT ["ragwright"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8321"]
