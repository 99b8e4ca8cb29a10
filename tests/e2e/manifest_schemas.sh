#!/bin/bash
# What `autolaunch submit --to` prints against schemas that others wrote. AUTOLAUNCH_KUBERNETES_CRDS_DIR is a folder with jobset.yaml and
# vcjob.yaml, the CRDs of JobSet and of Volcano's Job, else shared/kubernetes-crds beside the sources or above.
# AUTOLAUNCH_KUBERNETES_VALIDATE is a Python with PyPI's kubernetes-validate: the core kinds, strictly.
. "$(dirname "$0")/lib.sh"
schemas="$AUTOLAUNCH_SOURCE_DIR/tests/e2e/manifests.py"
skipped=0
crds=${AUTOLAUNCH_KUBERNETES_CRDS_DIR:-}
for ((base = ${#AUTOLAUNCH_SOURCE_DIR}; base > 0; base--)); do
    above=${AUTOLAUNCH_SOURCE_DIR:0:base}
    [ -z "$crds" ] && [ -e "$above/shared/kubernetes-crds/jobset.yaml" ] && crds=$above/shared/kubernetes-crds
done
mkdir crds core
if [ -z "$crds" ] || ! /usr/bin/python3 -c 'import jsonschema, yaml' 2>/dev/null; then
    echo "SKIPPED: JobSet and Volcano: no CRDs (AUTOLAUNCH_KUBERNETES_CRDS_DIR), or no python3-jsonschema, python3-yaml"
    skipped=77
else
    timeout 150 /usr/bin/python3 -W ignore "$schemas" crds crds "$crds" || fail "the CRDs of $crds"
fi
python=${AUTOLAUNCH_KUBERNETES_VALIDATE:-/usr/bin/python3}
if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
    echo "SKIPPED: core kinds: no kubernetes-validate for $python; AUTOLAUNCH_KUBERNETES_VALIDATE names a Python that has it"
    skipped=77
else
    timeout 150 "$python" -W ignore "$schemas" core core || fail "the core kinds"
fi
exit $skipped
