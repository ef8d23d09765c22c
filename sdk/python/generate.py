"""Writes src/eventrelay/calls_gen.py, a method for each operation of a document: generate.py openapi-compat.json"""

import json
import re
import sys

HEADER = """# Code generated from the OpenAPI document by generate.py. DO NOT EDIT.
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict, Unpack, cast

from . import types_gen as types
from .base import Base
"""
TYPES = {"string": "str", "integer": "int", "boolean": "bool", "number": "float", "object": "dict[str, str]"}

with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
components = document["components"]


def resolve(value):
    """Return what a reference of the document refers to."""
    while "$ref" in value:
        part = document
        for name in value["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        value = part
    return value


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def type_of(schema):
    """Return the type of a parameter."""
    schema = resolve(schema)
    if schema.get("type") == "array":
        return f"list[{type_of(schema['items'])}]"
    return TYPES[schema.get("type", "string")]


def named(content):
    """Return the type of a body, which has a name in types_gen if it is a reference."""
    ref = content["application/json"]["schema"].get("$ref")
    return "types." + ref.rsplit("/", 1)[1] if ref else "dict[str, Any]"


queries, methods = [], []
for path, operations in document["paths"].items():
    for method, operation in operations.items():
        content = next((a["content"] for s, a in operation["responses"].items() if s[0] == "2"), {})
        if not path.startswith("/v1/") or "application/json" not in content:
            continue
        name, result = operation["operationId"], named(content)
        parameters = [resolve(parameter) for parameter in operation.get("parameters", [])]
        query = [p for p in parameters if p["in"] == "query"]
        headers = {p["name"] for p in parameters if p["in"] == "header"}
        arguments = [f"{p['name']}: str" for p in parameters if p["in"] == "path"]
        quoted = re.sub(r"{(\w+)}", r"{self._quote(\1)}", path)
        passed = [f'"{method.upper()}"', ("f" if quoted != path else "") + f'"{quoted}"']
        if "requestBody" in operation:
            body = operation["requestBody"]
            arguments.append(f"body: {named(body['content'])}" + ("" if body.get("required") else " | None = None"))
            passed.append("body=body" if body.get("required") else "body=body or {}")
        keywords = []
        if "Idempotency-Key" in headers:
            keywords.append("idempotency_key: str | None = None")
            passed.append("idempotency_key=idempotency_key or self._new_key()")
        if "If-Match" in headers:
            keywords.append("if_match: str | None = None")
            passed.append("if_match=if_match")
        class_name = ""
        if query:
            class_name = name[0].upper() + name[1:] + "Query"
            members = [f"    {p['name']}: {type_of(p['schema'])}\n" for p in query]
            queries.append(f"class {class_name}(TypedDict, total=False):\n" + "".join(members))
            passed.append("query=query")
        arguments += ["*"] * bool(keywords) + keywords + [f"**query: Unpack[{class_name}]"] * bool(query)
        signature = ", ".join(["self", *arguments])
        methods.append(
            f"    def {snake(name)}({signature}) -> {result}:\n"
            f'        """{operation["summary"]} ({method.upper()} {path})."""\n'
            f'        return cast("{result}", self.call({", ".join(passed)}))\n'
        )
        if any(p["name"] == "cursor" for p in query):
            row = resolve(content["application/json"]["schema"])["properties"]["data"]["items"]["$ref"].rsplit("/", 1)[
                1
            ]
            values = ", ".join(a.split(":")[0] for a in arguments[:-1])
            methods.append(
                f"    def {snake(name)}_all({signature}) -> Iterator[types.{row}]:\n"
                f'        """The rows of all pages of {snake(name)}, from cursor on."""\n'
                f"        return self._rows(lambda at: self.{snake(name)}({values}{', ' * bool(values)}**at), query)\n"
            )

with open("src/eventrelay/calls_gen.py", "w", encoding="utf-8") as file:
    file.write("\n\n".join([HEADER, *queries, "class Calls(Base):\n" + "\n".join(methods)]))
