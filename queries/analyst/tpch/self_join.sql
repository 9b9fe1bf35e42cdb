select count(*)
from lineitem a
join lineitem b on a.l_orderkey=b.l_orderkey and a.l_linenumber<>b.l_linenumber and a.l_shipdate=b.l_shipdate
