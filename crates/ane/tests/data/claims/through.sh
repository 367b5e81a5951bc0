# through.sh: a program runs through the sibling of the broker at s.sock; both brokers' counters meanwhile.
rm -f u.sock
ane broker --socket u.sock --through s.sock > sibling.log 2>&1 &
sibling=$!
until test -S u.sock; do sleep 0.05; done
ane run digits.mlpackage --via broker --socket u.sock --cache cache -q --times 3000 &
run=$!
sleep 0.6
ane stat --socket s.sock
wait $run
code=$?
kill $sibling
exit $code
