select n, count(*)
from (select ss_ticket_number, count(*) n
  from store_sales
  group by 1) t
group by 1
order by 1
