# with-broker.sh ARGUMENTS COMMANDS: runs the commands beside a broker at the socket s.sock, and ends with their code.
rm -f s.sock
ane broker --socket s.sock $1 > broker.log 2>&1 &
broker=$!
tries=0
until test -S s.sock; do
    sleep 0.05
    tries=$((tries + 1))
    test $tries -lt 200 || exit 99
done
sh -c "$2"
code=$?
kill $broker
wait $broker 2> /dev/null
exit $code
