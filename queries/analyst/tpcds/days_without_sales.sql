select d1.d_date, count(ss_item_sk)
from date_dim d1
left join store_sales on ss_sold_date_sk=d1.d_date_sk and ss_quantity>50
where d1.d_year=2000
group by 1
order by 1
