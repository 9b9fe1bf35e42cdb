select l_orderkey, l_linenumber, l_extendedprice, avg(l_extendedprice) over (partition by l_orderkey) a,
  row_number() over (partition by l_orderkey order by l_extendedprice desc, l_linenumber) r
from lineitem
where l_orderkey < 2000000
order by l_extendedprice desc, 1, 2
limit 50
