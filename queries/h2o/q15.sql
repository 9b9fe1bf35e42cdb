-- H2O Q15: inner join with big on an integer.
-- The benchmark keeps the joined rows; here their numbers are summed up, so that what a client makes of rows is not measured.
select
    count(*) as n,
    sum(lhs.v1) as v1,
    sum(big.v2) as v2,
    sum(lhs.id1) as id1,
    sum(big.id1) as big_id1,
    sum(big.id2) as big_id2
from lhs
join big on lhs.id3 = big.id3;
