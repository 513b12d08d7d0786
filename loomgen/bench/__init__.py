"""Measuring loomgen beside its peers on one GPU: everyone in one process, interleaved, on the same inputs."""
