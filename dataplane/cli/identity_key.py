"""`gateway identity-key`: make the key that identities are signed with, or show its public half (§7.4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import orjson
import typer

VARIABLE = "GATEWAY_IDENTITY_SIGNING_KEY"
KEY_FILE_MAX_BYTES = 65_536  # a PEM of P-256 has about 240

# One line a paragraph: the help is wrapped to the terminal.
_HELP = (
    "Make a P-256 key pair for the identity signature, or show the public key of the one in use.\n\n"
    "Without --public a new private key (PKCS#8 PEM) goes to standard output. Keep it as a secret, and give the same "
    f"one to every replica as {VARIABLE} or {VARIABLE}_FILE.\n\n"
    "With --public the public key (SPKI PEM) of that variable is printed. Hand it to the applications behind the "
    "gateway: they verify with it.\n\n"
    "\b\nExamples:\n"
    "  gateway identity-key > key.pem\n"
    "  gateway identity-key --public > public.pem\n"
    "  gateway identity-key --json\n"
)


class KeyUnavailable(Exception):
    """The key in the environment cannot be used. The message says why and what to do, and holds no part of the key."""


def private_key_in(environment: Mapping[str, str]) -> str:
    """The PEM that the environment gives, directly or by file. Raises `KeyUnavailable`."""
    direct, file = environment.get(VARIABLE, ""), environment.get(f"{VARIABLE}_FILE", "")
    if direct and file:
        raise KeyUnavailable(f"{VARIABLE} and {VARIABLE}_FILE are both set. Unset one of them.")
    if direct:
        return direct
    if not file:
        raise KeyUnavailable(
            f"Neither {VARIABLE} nor {VARIABLE}_FILE is set. Make a key with `gateway identity-key` and set one."
        )
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(KEY_FILE_MAX_BYTES + 1)
        if len(content) > KEY_FILE_MAX_BYTES:
            raise KeyUnavailable(f"{VARIABLE}_FILE names {file}, which is too large for a key.")
        return content.decode("ascii")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text file"
        raise KeyUnavailable(f"{VARIABLE}_FILE names {file}, which cannot be read: {reason}.") from None


def public_key_in(environment: Mapping[str, str]) -> str:
    """The SPKI PEM of the key that the environment gives. Raises `KeyUnavailable`."""
    from common.identity.signature import SigningKeyInvalid, load_key, public_pem

    try:
        return public_pem(load_key(private_key_in(environment)))
    except SigningKeyInvalid as error:
        raise KeyUnavailable(
            f"The key of {VARIABLE} cannot be used: {error}. Make one with `gateway identity-key`."
        ) from None


def register(app: typer.Typer, environment: Mapping[str, str]) -> None:
    """Add the command to `app`; `environment` is read when the command runs."""

    @app.command("identity-key", help=_HELP)
    def identity_key(
        public: Annotated[bool, typer.Option("--public", help="Print the public key of the configured key.")] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print JSON: publicKey, and privateKey of a new one.")
        ] = False,
    ) -> None:
        try:
            keys = {"publicKey": public_key_in(environment)} if public else _new_pair()
        except KeyUnavailable as error:
            typer.echo(f"gateway identity-key: {error}", err=True)
            raise typer.Exit(1) from None
        if as_json:
            typer.echo(orjson.dumps(keys).decode())
        else:
            typer.echo(keys["publicKey"] if public else keys["privateKey"], nl=False)


def _new_pair() -> dict[str, str]:
    from common.identity.signature import load_key, new_private_key_pem, public_pem

    private = new_private_key_pem()
    return {"privateKey": private, "publicKey": public_pem(load_key(private))}
