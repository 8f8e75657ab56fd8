#!/bin/sh
# Builds the chart and the image of an older commit, from which the tests upgrade, into
# dist/e2e/previous: FROM, or the newest commit that is three hours older than this one. Without such
# a commit it builds nothing, and says so.
set -eu

root=$(git rev-parse --show-toplevel)
out=$root/dist/e2e/previous
from=${FROM:-}
if [ -z "$from" ]; then
	from=$(git -C "$root" rev-list -1 --before="$(($(git -C "$root" log -1 --format=%ct) - 3 * 3600))" HEAD)
fi
commit=
[ -z "$from" ] || commit=$(git -C "$root" rev-parse --verify --quiet "$from^{commit}") || true
if [ -z "$commit" ]; then
	rm -rf "$out"
	echo "the upgrade is not tested: this clone has no commit ${FROM:-that is three hours older}; fetch its history" >&2
	exit 0
fi
if [ -f "$out/commit" ] && [ "$(cat "$out/commit")" = "$commit" ]; then
	exit 0
fi
echo "building the image of $(git -C "$root" log -1 --format='%h of %cs, %s' "$commit")" >&2
rm -rf "$out"
mkdir -p "$out"
tree=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$tree" || rm -rf "$tree"' EXIT
git -C "$root" worktree add --quiet --detach --force "$tree" "$commit"
make -C "$tree" --no-print-directory builtins >&2
(cd "$tree" && "${GO:-go}" run -C hack/release . image --version=previous --out="$out" >&2)
cp -R "$tree/charts/longshore" "$out/chart"
echo "$commit" >"$out/commit"
