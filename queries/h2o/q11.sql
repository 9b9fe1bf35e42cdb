-- H2O Q11: inner join with small on an integer.
-- The benchmark keeps the joined rows; here their numbers are summed up, so that what a client makes of rows is not measured.
select
    count(*) as n,
    sum(lhs.v1) as v1,
    sum(small.v2) as v2,
    sum(lhs.id2) as id2,
    sum(lhs.id3) as id3
from lhs
join small on lhs.id1 = small.id1;
