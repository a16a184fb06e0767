"""Settings of the service: who may ask, and how much."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What a request may cost.

    Attributes
    ----------
    body_bytes : int
        Size of a body.
    rows : int
        Rows in a body.
    explained_rows : int
        Rows in a body whose deferral is to be explained in words.
    seconds : float
        From the end of the body until the answer.
    slow_seconds : float
        Until the headers of a request are complete, and until its body is; also the time in which
        a client must read on in its answer.
    waiting : int
        Requests that wait for a worker, of each model.
    held_bytes : int
        Bodies that are being received or wait and answers that are being sent, all together.
    connections : int
        Open connections; more are answered 503. Each is an open file of the server.
    """

    body_bytes: int = 16_000_000
    rows: int = 100_000
    explained_rows: int = 1000
    seconds: float = 30.0
    slow_seconds: float = 20.0
    waiting: int = 2000
    held_bytes: int = 256_000_000
    connections: int = 800


@dataclass(frozen=True)
class Settings:
    """Settings of the service.

    Attributes
    ----------
    host : str
        Address to listen on.
    port : int
        Port to listen on; 0: any free one.
    token : str, optional
        Bearer token that requests must carry. None: everybody who reaches the server may ask.
    n_workers : int
        Number of processes that score.
    watch : bool
        Whether scored rows are counted in a log beside each model; see `bacoun.watching`.
    watch_inputs : bool
        Whether that log also stores the rows themselves.
    playground : bool
        Whether the playground and the page for digits, which train models, are served.
    limits : Limits
        What a request may cost.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    n_workers: int = 1
    watch: bool = False
    watch_inputs: bool = False
    playground: bool = True
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.is_loopback and self.token is None:
            raise ValueError(
                f"a server that others can reach needs a token; host is '{self.host}'. Set the "
                "variable BACOUN_TOKEN, or use --host 127.0.0.1."
            )
        if self.token is not None and (len(self.token) < 16 or not self.token.isascii()):
            raise ValueError(
                f"the token must have at least 16 ASCII characters; got {len(self.token)}. Make "
                "one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        if not 0 <= self.port < 2**16:
            raise ValueError(f"port must be from 0 to 65535; got {self.port}.")
        if self.n_workers < 1:
            raise ValueError(f"n_workers must be at least 1; got {self.n_workers}.")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
