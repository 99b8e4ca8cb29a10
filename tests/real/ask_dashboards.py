#!/usr/bin/env python3
"""Asks a Prometheus for every query of dashboards: ask_dashboards.py URL NAME=VALUE... -- FILE...

NAME=VALUE are Grafana's variables. Fails where Prometheus refuses a query, or knows no series for it."""
import json, re, sys, urllib.parse, urllib.request

url, arguments = sys.argv[1], sys.argv[2:]
variables = dict(pair.split("=", 1) for pair in arguments[: arguments.index("--")])
variables["__rate_interval"] = "1m"
asked = failed = 0


def get(path, **query):
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        return error.read().decode()


for file in arguments[arguments.index("--") + 1 :]:
    dashboard = json.load(open(file))
    queries = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
    for title, expression in queries:
        expression = re.sub(r"\$([a-z_]+)", lambda word: variables[word[1]], expression)
        answer = get("query", query=expression)
        asked += 1
        if isinstance(answer, str) or not answer["result"]:
            failed += 1
            print(f"{file}: {title}: {expression}: {answer if isinstance(answer, str) else 'no series'}")
    for variable in dashboard["templating"]["list"]:
        words = re.fullmatch(r"label_values\((.+), (\w+)\)", variable.get("definition", ""))
        if words is None:
            continue
        values = get(f"label/{words[2]}/values", **{"match[]": words[1]})
        asked += 1
        if variables[variable["name"]] not in values:
            failed += 1
            print(f"{file}: the choice {variable['name']} has no {variables[variable['name']]}: {values}")
print(f"{asked} questions, {failed} without an answer")
sys.exit(failed > 0 or asked == 0)
