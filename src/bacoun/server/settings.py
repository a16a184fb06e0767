"""Settings of the service: who may ask, and how much."""

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What a request may cost."""

    body_bytes: int = 16_000_000
    rows: int = 100_000
    explained_rows: int = 1000  # if their deferral is to be explained in words
    photo_pixels: int = 250_000_000  # of all photos; a hundred million are read in two seconds
    seconds: float = 30.0  # from the end of the body until the answer
    # Until headers are complete, then until the body is; and for a client to read on in its answer.
    slow_seconds: float = 20.0
    waiting: int = 2000  # requests that wait for a worker, of each model
    # Bodies that are being received or wait, or answers that are being sent, all together.
    held_bytes: int = 256_000_000
    connections: int = 800  # open files of the server; more connections are answered 503


@dataclass(frozen=True)
class Settings:
    """Settings of the service."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    token: str | None = None  # that requests must carry; None: everybody who reaches it may ask
    n_workers: int = 1  # processes that score
    watch: bool = False  # count scored rows in a log beside each model; see `bacoun.watching`
    watch_inputs: bool = False  # also store the rows in that log
    playground: bool = True  # serve the pages that train models
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
