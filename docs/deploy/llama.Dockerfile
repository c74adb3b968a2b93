# llama-server from Debian's package.
FROM debian:forky-slim
RUN apt-get update && apt-get install --yes --no-install-recommends curl llama.cpp-tools && rm -rf /var/lib/apt/lists/*
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s CMD ["curl", "--fail", "--silent", "http://127.0.0.1:8080/health"]
ENTRYPOINT ["llama-server"]
CMD ["--host", "0.0.0.0", "--port", "8080"]
