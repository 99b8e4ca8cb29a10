"""One signed request to an S3 server: s3_request.py METHOD URL [HEADER: VALUE ...]; the body of the answer on stdout.

AWS Signature Version 4 of an empty body, as
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html has it. Exits with 1 where the
server says 300 or more.
"""

import datetime
import hashlib
import hmac
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

method, url, *extra = sys.argv[1:]
parts = urllib.parse.urlsplit(url)
now = datetime.datetime.utcnow().strftime("%Y%m%dT%H%M%SZ")
region = os.environ.get("AWS_REGION", "us-east-1")
scope = f"{now[:8]}/{region}/s3/aws4_request"
nothing = hashlib.sha256(b"").hexdigest()
headers = {"host": parts.netloc, "x-amz-date": now, "x-amz-content-sha256": nothing}
headers.update((name.lower(), value.strip()) for name, value in (word.split(":", 1) for word in extra))
names = ";".join(sorted(headers))
query = "&".join(sorted(word if "=" in word else word + "=" for word in parts.query.split("&") if word))
canonical = "\n".join(
    [method, parts.path, query, *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, nothing]
)
to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
for word in scope.split("/"):
    key = hmac.new(key, word.encode(), hashlib.sha256).digest()
signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
headers["authorization"] = (
    f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}, SignedHeaders={names}, Signature={signature}"
)
try:
    with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=20) as answer:
        sys.stdout.write(answer.read().decode())
except urllib.error.HTTPError as error:
    sys.stdout.write(f"{error.code} {error.read().decode()}")
    sys.exit(1)
