#!/usr/bin/env bash
# lint.sh BUILD [--budget SECONDS] [FILE...]: clang-tidy over the sources in BUILD's compilation database.
# A file that passed is not looked at again until it, a header it includes, its flags or .clang-tidy change. The files
# changed last come first, and with --budget no file is started after that time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$1
shift
budget=86400
if [[ ${1:-} == --budget ]]; then
  budget=$2
  shift 2
fi
passed=${ATTUNE_CACHE:-$HOME/.cache/attune}/lint
mkdir -p "$passed"
deadline=$(($(date +%s) + budget))

if (($# > 0)); then
  files=("$@")
else
  mapfile -t files < <(git log --format= --name-only --diff-filter=AM -- '*.cpp' | awk '!seen[$0]++' | xargs -r ls 2>/dev/null)
fi

# check FILE: exit 1 with clang-tidy's words if it finds something.
check() {
  local file=$1 command key log
  if (($(date +%s) >= deadline)); then echo "not reached: $file"; return; fi
  command=$(sed -n "s|^  \"command\": \"\(.*\) -o [^ ]* -c .*/$file\".*|\1|p" "$build/compile_commands.json" | head -1)
  if [[ -z $command ]]; then return; fi  # not in this build
  key=$({ echo "$command"; cat .clang-tidy; eval "${command//\\\"/\"} -E -P $file"; } | sha256sum | cut -c1-32)
  if [[ -e $passed/$key ]]; then return; fi
  log=$(mktemp)
  if clang-tidy-14 -p "$build" --quiet "$file" >"$log" 2>/dev/null; then touch "$passed/$key"; rm "$log"; return; fi
  cat "$log"
  rm "$log"
  return 1
}
export -f check
export build passed deadline

printf '%s\n' "${files[@]}" | xargs -r -P "$(nproc)" -I{} bash -c 'check {}'
