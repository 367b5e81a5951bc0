# through.sh RUN...: as meanwhile.sh, through the sibling of the broker at s.sock.
rm -f u.sock
ane broker --socket u.sock --through s.sock > sibling.log 2>&1 &
sibling=$!
until test -S u.sock; do sleep 0.05; done
SOCKET=u.sock sh meanwhile.sh "$@"
kill $sibling
