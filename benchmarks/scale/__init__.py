"""Several replicas of the proxy: throughput, conversations while replicas crash, streams while they are restarted."""
