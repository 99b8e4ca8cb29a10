"""Puts objects into a bucket of a test's own S3 server, by the rules of signature version 4:
s3_put.py http://HOST:PORT BUCKET [KEY FILE]... ; makes the bucket first. The key is s3_server.sh's."""
import datetime
import hashlib
import hmac
import sys
import urllib.parse
import urllib.request

endpoint, bucket, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
key_id, secret = "AKIATEST", "test/secret+with/slashes="


def put(path, body):
    now = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    path = urllib.parse.quote(path)
    host = endpoint.split("//")[1]
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
    names = ";".join(sorted(headers))
    canonical = "\n".join(["PUT", path, "", *(f"{n}:{headers[n]}" for n in sorted(headers)), "", names, digest])
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (now[:8], "us-east-1", "s3", "aws4_request", to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={key_id}/{scope},SignedHeaders={names},Signature={key.hex()}"
    urllib.request.urlopen(urllib.request.Request(endpoint + path, body, headers, method="PUT")).read()


put(f"/{bucket}", b"")
for name, file in zip(rest[::2], rest[1::2]):
    with open(file, "rb") as content:
        put(f"/{bucket}/{name}", content.read())
