"""The development provider by itself, for gateways on other ports: `provider.py PORT CALLBACK…`, its client's secret in
the environment."""

from __future__ import annotations

import asyncio
import os
import sys

from common.settings.secret import Secret
from dataplane.dev.authorization import Client
from dataplane.dev.provider import DevelopmentProvider
from dataplane.dev.servers import loopback_socket, origin_of, serving
from tests.bench.gateway import AUDIENCE, CLIENT_ID, SECRET_VARIABLE


async def main(port: int, callbacks: tuple[str, ...]) -> None:
    sock = loopback_socket(port)
    client = Client(CLIENT_ID, Secret(os.environ[SECRET_VARIABLE]), callbacks, ())
    async with serving(DevelopmentProvider(origin_of(sock), client, AUDIENCE).app, sock) as served:
        await served


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), tuple(sys.argv[2:])))
