# meanwhile.sh RUN...: `ane run` of each, over and over, through the broker at $SOCKET (s.sock); the counters of the broker at
# s.sock once every run has an instance there.
for run in "$@"; do
    ane run $run --via broker --socket "${SOCKET:-s.sock}" -q --times 1000000000 > /dev/null 2>&1 &
    runs="$runs $!"
done
tries=0
until ane stat --socket s.sock | grep -q "^  instances  *$#\$"; do
    sleep 0.05
    tries=$((tries + 1))
    test $tries -lt 200 || break
done
ane stat --socket s.sock
kill $runs
