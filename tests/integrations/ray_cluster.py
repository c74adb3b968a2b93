"""A small Ray cluster with Serve's proxy on loopback. Runs in Ray's environment: `python ray_cluster.py FOLDER PORT`.

Rule: it prints its address when it serves, and ends with its input.
"""

import sys

ADDRESS = "address: "
"""What stands before the address."""
_OBJECT_STORE = 100 * 2**20
"""Bytes; Serve sends requests by it only if they are large."""


def main() -> None:
    """Run until the input ends."""
    import ray  # noqa: PLC0415 - the tests read this module without Ray
    from ray import serve  # noqa: PLC0415 - see above

    folder, port = sys.argv[1:]
    ray.init(
        num_cpus=4,  # what replicas may reserve; the machine may have less
        object_store_memory=_OBJECT_STORE,
        include_dashboard=False,
        _temp_dir=folder,
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    sys.stdout.write(f"{ADDRESS}{ray.get_runtime_context().gcs_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
