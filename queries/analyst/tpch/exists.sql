select o_orderpriority, count(*)
from orders o
where exists (select *
  from lineitem l
  where l.l_orderkey=o.o_orderkey and l.l_receiptdate > l.l_commitdate + interval '60 days')
group by 1
order by 1
