select *
from lineitem
where l_comment like '%furiously%express%'
order by l_orderkey, l_linenumber
limit 100
