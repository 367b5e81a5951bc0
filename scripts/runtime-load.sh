#!/usr/bin/env bash
# The long versions of the runtime's load and fault tests: 64 clients with 10,000 dispatches each, and 1,000 kills.
set -euo pipefail
cd "$(dirname "$0")/.."
ANE_LOAD="${ANE_LOAD:-64,10000}" cargo test --release -p anemone-runtime --test acceptance k_broker::load -- --nocapture
ANE_KILLS="${ANE_KILLS:-1000}" cargo test --release -p anemone --test cli broker kills -- --nocapture
